/** What a mint asks for besides its project and its tenant, wherever one is measured. */
export const MINT = {
  env: "live",
  name: "bench",
  scopes: ["orders:read", "orders:write"],
  meta: { plan: "pro" },
};
