// A broker for a test: `const broker = await startBroker()`, then broker.kafka is its address, and
// `await broker.control("POST", "/time", { advance_seconds: 45 })` controls it.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const READY = /^kohort ready kafka=(\S+) http=(\S+) control=(\S+)/;
const OPTIONS = ["serve", "--ephemeral", "--control", "127.0.0.1:0", "--log-level", "error"];

/** Start a broker on free ports whose data goes with it; KOHORT names the command. */
export async function startBroker(...settings) {
  const options = settings.flatMap((each) => ["--set", each]);
  const child = spawn(process.env.KOHORT ?? "kohort", [...OPTIONS, ...options], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", resolve);
  });
  const ready = new Promise((resolve) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const found = READY.exec(line);
      if (found) resolve({ kafka: found[1], http: found[2], port: found[3] });
    });
  });
  const addresses = await Promise.race([ready, ended]);
  if (!addresses?.kafka) throw new Error(`the broker ended with status ${addresses}`);
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  /** Ask the control port; an expectation that fails throws with what the broker saw instead. */
  const control = async (method, path, body) => {
    const answer = await fetch(`http://${addresses.port}${path}`, { method, body: body && JSON.stringify(body) });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    return found;
  };
  return { ...addresses, control, stop };
}
