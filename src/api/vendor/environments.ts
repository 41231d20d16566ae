// The two environments: a closed set.
import { endpoint } from "../../http/endpoint.ts";
import { ENVS } from "../../kernel/credentials.ts";
import { listOf } from "../schemas.ts";
import { Environment } from "./schemas.ts";

export const environmentsList = endpoint("GET /v1/environments", {
  summary: "List the environments. Only live is billable.",
  access: "environments.read",
  output: listOf(Environment),
  handle: () => ({
    object: "list" as const,
    data: ENVS.map((name) => ({ object: "environment" as const, name, billable: name === "live" })),
  }),
});
