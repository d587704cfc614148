package orders

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
)

var ready = regexp.MustCompile(`^kohort ready kafka=(\S+) http=(\S+)`)

// startBroker starts a broker on free ports whose data goes with it, and returns its address; it ends with the
// test. KOHORT names the command.
func startBroker(t *testing.T, settings ...string) string {
	t.Helper()
	name := os.Getenv("KOHORT")
	if name == "" {
		name = "kohort"
	}
	arguments := []string{"serve", "--ephemeral", "--log-level", "error"}
	for _, each := range settings {
		arguments = append(arguments, "--set", each)
	}
	command := exec.Command(name, arguments...)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := ready.FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	t.Fatal("the broker ended before it was ready")
	return ""
}
