// Databases and migrations.
import { setting } from "../setting.ts";

export const storageSettings = {
  database_url: setting(
    "KEYRACK_DATABASE_URL",
    "database",
    "",
    "sqlite:FILE or postgres://…; unset = SQLite in the data dir.",
    { secret: true },
  ),
  database_pool: setting(
    "KEYRACK_DATABASE_POOL",
    "count",
    "10",
    "Connections to PostgreSQL for reads; half of them are reserved for long reads.",
  ),
  migrate: setting(
    "KEYRACK_MIGRATE",
    "migrate",
    "auto",
    "When the database has an older schema: auto (migrate it) or refuse (exit 2; run keyrack db migrate).",
  ),
  redis_url: setting(
    "KEYRACK_REDIS_URL",
    "redis",
    "",
    "redis://… or rediss://…, comma-separated for a cluster; unset = rate-limit counters in this process.",
    { secret: true },
  ),
  ratelimit_on_redis_failure: setting(
    "KEYRACK_RATELIMIT_ON_REDIS_FAILURE",
    "redis_failure",
    "local",
    "When Redis fails: local (each process counts on its own) or error (rate-limit checks fail).",
  ),
  idempotency_store: setting(
    "KEYRACK_IDEMPOTENCY_STORE",
    "idempotency",
    "database",
    "Where idempotency claims are stored: database; redis, which requires appendfsync always; or redis-forced, which accepts a Redis that may lose claims.",
  ),
} as const;
