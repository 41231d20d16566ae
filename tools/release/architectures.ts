// The targets of a release and what Debian and OCI call them.
export const architectures = { "linux-x64": "amd64", "linux-arm64": "arm64" } as const;

export type Target = keyof typeof architectures;
export type Architecture = (typeof architectures)[Target];
