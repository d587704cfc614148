package orders

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
)

var ready = regexp.MustCompile(`^kohort ready kafka=(\S+) http=\S+ control=(\S+)`)

// A broker for a test: where Kafka clients connect, and the address of its control port.
type broker struct {
	kafka   string
	control string
}

// startBroker starts a broker on free ports whose data goes with it; it ends with the test. KOHORT names the command.
func startBroker(t *testing.T, settings ...string) broker {
	t.Helper()
	name := os.Getenv("KOHORT")
	if name == "" {
		name = "kohort"
	}
	arguments := []string{"serve", "--ephemeral", "--control", "127.0.0.1:0", "--log-level", "error"}
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
			return broker{found[1], found[2]}
		}
	}
	t.Fatal("the broker ended before it was ready")
	return broker{}
}

// post asks the control port. An expectation that fails ends the test with what the broker saw instead.
func (b broker) post(t *testing.T, path string, body map[string]any) map[string]any {
	t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post("http://"+b.control+path, "application/json", bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var found map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Fatal(found["error"])
	}
	return found
}
