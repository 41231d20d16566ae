// A process that owns a data dir until it dies.
import { lockDataDir } from "../../src/store/lock.ts";

const { dir } = JSON.parse(process.argv[2] ?? "{}") as { dir: string };
try {
  lockDataDir(dir);
  console.log("locked");
  process.stdin.resume();
} catch (error) {
  console.log((error as Error).constructor.name);
}
