// A broker for a test: `const broker = await startBroker()`, then broker.kafka is its address.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const READY = /^kohort ready kafka=(\S+) http=(\S+)/;

/** Start a broker on free ports whose data goes with it; KOHORT names the command. */
export async function startBroker(...settings) {
  const options = settings.flatMap((each) => ["--set", each]);
  const child = spawn(process.env.KOHORT ?? "kohort", ["serve", "--ephemeral", "--log-level", "error", ...options], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", resolve);
  });
  const ready = new Promise((resolve) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const found = READY.exec(line);
      if (found) resolve({ kafka: found[1], http: found[2] });
    });
  });
  const addresses = await Promise.race([ready, ended]);
  if (!addresses?.kafka) throw new Error(`the broker ended with status ${addresses}`);
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  return { ...addresses, stop };
}
