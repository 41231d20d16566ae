// Names that stored usage and its readers share.

/** Stands for the tenants, routes, keys or tags above a cap. */
export const ABOVE_CAP = "*";

/** The outcome of a request that was not refused. */
export const ALLOWED = "allowed";
