// node tools/test-program.ts FILE: the program of this checkout as one script, for the processes that tests start.
import { bundleCheckout } from "./sea/bundle.ts";

await bundleCheckout(process.argv[2] ?? "");
