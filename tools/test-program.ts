// node tools/test-program.ts CHECKOUT FILE: the program of a checkout as one script, for the processes that tests
// start.
import { bundleCheckout } from "./sea/bundle.ts";

const [checkout = "", file = ""] = process.argv.slice(2);
await bundleCheckout(checkout, file);
