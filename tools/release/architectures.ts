// What Debian and OCI call the targets.
import type { Target } from "../sea/targets.ts";

export const architectures = { "linux-x64": "amd64", "linux-arm64": "arm64" } as const satisfies Record<Target, string>;

export type Architecture = (typeof architectures)[Target];
