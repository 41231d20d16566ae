// State of the log-in throttle: consecutive failures, and networks with a recent success. Keys are HMACs of address and
// network, so addresses with and without an account leave the same rows.
import { statement } from "../engine/statement.ts";

type Bucket = { address_key: string; bucket: string };

export const loginFailures = statement<Bucket>()((db, p) =>
  db
    .selectFrom("login_failures")
    .select("consecutive")
    .where("address_key", "=", p.address_key)
    .where("bucket", "=", p.bucket),
);

export const countLoginFailure = statement<Bucket & { now: number }>()((db, p) =>
  db
    .insertInto("login_failures")
    .values({ address_key: p.address_key, bucket: p.bucket, consecutive: 1, failed_at: p.now })
    .onConflict((oc) =>
      oc.columns(["address_key", "bucket"]).doUpdateSet((eb) => ({
        consecutive: eb("login_failures.consecutive", "+", 1),
        failed_at: p.now,
      })),
    ),
);

export const clearLoginFailures = statement<Bucket>()((db, p) =>
  db.deleteFrom("login_failures").where("address_key", "=", p.address_key).where("bucket", "=", p.bucket),
);

export const clearAllLoginFailures = statement<{ address_key: string }>()((db, p) =>
  db.deleteFrom("login_failures").where("address_key", "=", p.address_key),
);

/** Addresses with at least `max` consecutive failures. */
export const disabledAddresses = statement<{ max: number }>()((db, p) =>
  db.selectFrom("login_failures").select("address_key").where("consecutive", ">=", p.max),
);

export const loginNetwork = statement<{ address_key: string; network_key: string; since: number }>()((db, p) =>
  db
    .selectFrom("login_networks")
    .select("succeeded_at")
    .where("address_key", "=", p.address_key)
    .where("network_key", "=", p.network_key)
    .where("succeeded_at", ">", p.since),
);

export const recordLoginNetwork = statement<{ address_key: string; network_key: string; now: number }>()((db, p) =>
  db
    .insertInto("login_networks")
    .values({ address_key: p.address_key, network_key: p.network_key, succeeded_at: p.now })
    .onConflict((oc) => oc.columns(["address_key", "network_key"]).doUpdateSet({ succeeded_at: p.now })),
);

export const reapLoginNetworks = statement<{ before: number }>()((db, p) =>
  db.deleteFrom("login_networks").where("succeeded_at", "<", p.before),
);

/** Keeps rows that have disabled log-in: only a password reset clears them. */
export const reapLoginFailures = statement<{ before: number; max: number }>()((db, p) =>
  db.deleteFrom("login_failures").where("failed_at", "<", p.before).where("consecutive", "<", p.max),
);

/** Keeps the newest rows: anyone can cause them. Those that have disabled log-in stay, as above. */
export const trimLoginFailures = statement<{ keep: number; max: number }>()((db, p) =>
  db
    .deleteFrom("login_failures")
    .where("consecutive", "<", p.max)
    .where("failed_at", "<=", (eb) =>
      eb
        .selectFrom("login_failures as all")
        .select("all.failed_at")
        .orderBy("all.failed_at", "desc")
        .limit(1)
        .offset(p.keep),
    ),
);
