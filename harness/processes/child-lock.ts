// A process that locks a data dir until it ends.
import { lockDataDir } from "../../src/store/sqlite/lock.ts";

const { dir } = JSON.parse(process.argv[2] ?? "{}") as { dir: string };
try {
  const lock = lockDataDir(dir);
  console.log("locked");
  process.stdin.resume().on("end", () => lock.release()); // keeps a reference: an unreferenced lock is collected
} catch (error) {
  console.log((error as Error).constructor.name);
}
