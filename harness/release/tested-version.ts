// The version that the tested program reports: the checkout's, or that of the binary which KEYRACK_TEST_BIN names.
import { execFileSync } from "node:child_process";
import { VERSION } from "../../src/platform/version.ts";

const binary = process.env.KEYRACK_TEST_BIN;

export const TESTED_VERSION = binary ? execFileSync(binary, ["version"], { encoding: "utf8" }).trim() : VERSION;
