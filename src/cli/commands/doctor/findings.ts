// The findings of `keyrack doctor`.
export type Finding = { level: "ok" | "risk" | "fail" | "skip"; what: string; fix: string | null };

export const ok = (what: string): Finding => ({ level: "ok", what, fix: null });
export const skip = (what: string): Finding => ({ level: "skip", what, fix: null });
export const risk = (what: string, fix: string): Finding => ({ level: "risk", what, fix });
export const fail = (what: string, fix: string | null): Finding => ({ level: "fail", what, fix });
