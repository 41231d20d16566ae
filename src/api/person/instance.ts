// What a signed-in person may know about the server. No path, host name or address of a component.
import { z } from "zod";
import { endpoint } from "../../http/endpoint.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { VERSION } from "../../platform/version.ts";
import { pages } from "../public/pages.ts";
import { Timestamp } from "../schemas.ts";

export const instanceShow = endpoint("GET /v1/instance", {
  summary: "Show the version and the components of this server.",
  access: "auth.own",
  output: z.strictObject({
    object: z.literal("instance"),
    version: z.string(),
    build: z.string().describe("Changes with the assets of the web pages."),
    region: z.string(),
    public_url: z.string(),
    database: z.enum(["sqlite", "postgres"]),
    counters: z.enum(["memory", "redis"]),
    mail: z.enum(["file", "smtp", "log"]),
    server_time: Timestamp,
  }),
  handle: ({ services: { settings, publicUrl, store, clock } }) => ({
    object: "instance" as const,
    version: VERSION,
    build: pages.build(),
    region: settings.region,
    public_url: publicUrl,
    database: store.target.kind,
    counters: settings.redis_url ? ("redis" as const) : ("memory" as const),
    mail: settings.mail_url.kind,
    server_time: formatTimestamp(clock.now()),
  }),
});
