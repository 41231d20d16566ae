// The fast lane's route table: one spelling per route; everything else is left to h3.
import { describe, expect, it } from "vitest";
import { Routes } from "../../../src/http/fast/routes.ts";

function table(): Routes<string> {
  const routes = new Routes<string>(["/v1/keys", "/v1/keys/{id}", "/v1/keys/lookup"]);
  for (const route of ["GET /v1/keys", "GET /v1/keys/{id}", "POST /v1/keys/{id}/revoke", "GET /v1/tenants/{id}"]) {
    const [method = "GET", path = ""] = route.split(" ");
    routes.add({ method: method as "GET", path }, route);
  }
  return routes;
}

describe("the route table", () => {
  it("finds a route by method and path, with its parameters", () => {
    const routes = table();
    expect(routes.find("GET", "/v1/keys")).toEqual({ target: "GET /v1/keys", params: {} });
    expect(routes.find("GET", "/v1/keys/a")).toEqual({ target: "GET /v1/keys/{id}", params: { id: "a" } });
    expect(routes.find("GET", "/v1/tenants/a")?.target).toBe("GET /v1/tenants/{id}");
    expect(routes.find("POST", "/v1/keys/a/revoke")?.params).toEqual({ id: "a" });
  });

  it("leaves every other spelling, method and path to h3", () => {
    const routes = table();
    for (const path of ["/v1/keys/", "/v1/keys//revoke", "/v1/keys/..", "/v1/keys/.", "/v1/keys/a%2e", "//v1/keys"])
      expect(routes.find("GET", path), path).toBeUndefined();
    expect(routes.find("HEAD", "/v1/keys")).toBeUndefined();
    expect(routes.find("POST", "/v1/keys/a")).toBeUndefined();
    expect(routes.find("GET", "/v1/keys/a/revoke")).toBeUndefined();
    expect(routes.find("GET", "/v1/keys/lookup")).toBeUndefined();
  });
});
