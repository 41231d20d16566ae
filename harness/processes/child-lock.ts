// A process that owns a data dir until it dies.
import { lockDataDir } from "../../src/store/sqlite/lock.ts";

const { dir } = JSON.parse(process.argv[2] ?? "{}") as { dir: string };
try {
  const lock = lockDataDir(dir);
  console.log("locked");
  process.stdin.resume().on("end", () => lock.release()); // and holds on to it: one that is let go of is collected
} catch (error) {
  console.log((error as Error).constructor.name);
}
