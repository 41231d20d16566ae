// Databases and migrations.
import { count, database, oneOf, redis } from "../parsers.ts";
import { setting } from "../setting.ts";

export const storageSettings = {
  database_url: setting(database, "", "sqlite:FILE or postgres://…; unset = SQLite in the data dir.", {
    secret: true,
  }),
  database_pool: setting(count, "10", "Connections to PostgreSQL for reads; half of them are reserved for long reads."),
  migrate: setting(
    oneOf("auto", "refuse"),
    "auto",
    "When the database has an older schema: auto (migrate it) or refuse (exit 2; run keyrack db migrate).",
  ),
  redis_url: setting(
    redis,
    "",
    "redis://… or rediss://…, comma-separated for a cluster; unset = rate-limit counters in this process.",
    { secret: true },
  ),
  ratelimit_on_redis_failure: setting(
    oneOf("local", "error"),
    "local",
    "When Redis fails: local (each process counts on its own) or error (rate-limit checks fail).",
  ),
  idempotency_store: setting(
    oneOf("database", "redis", "redis-forced"),
    "database",
    "Where idempotency claims are stored: database; redis, which requires appendfsync always; or redis-forced, which accepts a Redis that may lose claims.",
  ),
} as const;
