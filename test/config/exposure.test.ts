// Connections that leave this machine unencrypted, by their settings alone.
import { describe, expect, it } from "vitest";
import { plainConnections } from "../../src/config/exposure.ts";
import { loadSettings } from "../../src/config/load.ts";

const DATABASE = "The connection to PostgreSQL on db.example.com is not encrypted.";
const REDIS = "The connection to Redis on cache.example.com is not encrypted.";

describe("plain connections", () => {
  it.each([
    ["postgres://keyrack@db.example.com/keyrack", DATABASE],
    ["postgres://keyrack:secret@db.example.com/keyrack?sslmode=disable", DATABASE],
    ["postgres://keyrack@localhost/keyrack?host=db.example.com", DATABASE],
    ["postgres://keyrack@db.example.com/keyrack?sslmode=require", null],
    ["postgres://keyrack@db.example.com/keyrack?sslmode=verify-full", null],
    ["postgres://keyrack@db.example.com/keyrack?ssl=true", null],
    ["postgres://keyrack@127.0.0.1/keyrack", null],
    ["postgres://keyrack@[::1]/keyrack", null],
    ["postgres://keyrack@%2Fvar%2Frun%2Fpostgresql/keyrack", null],
    ["postgres://keyrack@localhost/keyrack?host=/var/run/postgresql", null],
    ["sqlite:keyrack.db", null],
  ])("to %s: %s", (database_url, what) => {
    const found = plainConnections(loadSettings({ env: {}, flags: { database_url } }).settings);
    expect(found.map((each) => each.what)).toEqual(what === null ? [] : [what]);
    expect(JSON.stringify(found)).not.toContain("secret");
  });

  it.each([
    ["redis://cache.example.com", REDIS],
    ["rediss://one.example.com,redis://:secret@cache.example.com:6380", REDIS],
    ["rediss://cache.example.com", null],
    ["redis://localhost,redis://127.0.0.1:6380", null],
  ])("to %s: %s", (redis_url, what) => {
    const found = plainConnections(loadSettings({ env: {}, flags: { redis_url } }).settings);
    expect(found.map((each) => each.what)).toEqual(what === null ? [] : [what]);
    expect(JSON.stringify(found)).not.toContain("secret");
  });
});
