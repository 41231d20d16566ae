/** The body of a mint except its project and tenant, the same in every benchmark. */
export const MINT = {
  env: "live",
  name: "bench",
  scopes: ["orders:read", "orders:write"],
  meta: { plan: "pro" },
};
