// What can be done to many keys at once, and the states that select them: for the statements, the API and the CLI.
export const BULK_ACTIONS = ["revoke", "disable", "enable", "rotate", "cap_expiry"] as const;
export type BulkAction = (typeof BULK_ACTIONS)[number];

export const BULK_STATES = ["active", "disabled", "expired", "quarantined"] as const;
export type BulkState = (typeof BULK_STATES)[number];
