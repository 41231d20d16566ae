// Lua scripts of the Redis idempotency store: the rules of store/queries/idempotency-claims.ts; a script is atomic.
//
// A record is a hash: f fingerprint, t token hash, l lease until, e expires at, ttl, c completed (0 or 1), s status,
// n body stored (0 or 1), b sealed response in base64. Redis deletes it at `e`; the scripts compare `e` themselves.
// KEYS[2] is the total size of the cell's stored responses, and KEYS[3] a sorted set of "<bytes>:<id>" by expiry.
import { TTL_MS_MAX } from "../../kernel/idempotency.ts";
import { script } from "./script.ts";

// ARGV[1] is the time (tests only, else empty).
const common = `
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function int(x) return string.format('%.0f', x) end
local id = string.match(KEYS[1], '[^:]+$')

local r = redis.call('HMGET', KEYS[1], 'f', 't', 'l', 'e', 'c', 'ttl', 'n')
local found = r[1] and tonumber(r[4]) > now
local completed = r[5] == '1'
local function outcome(token)
  if not found then return 'not_found' end
  if completed then return 'completed' end
  if r[2] ~= token then return 'lock_lost' end
  return 'ok'
end
`;

/** Enters the record into its cell, and forgets some that have expired. */
const places = `
local function enter(size, ends)
  local added = redis.call('ZADD', KEYS[3], ends, int(size) .. ':' .. id)
  if added == 1 and size > 0 then redis.call('INCRBY', KEYS[2], int(size)) end
  for key = 2, 3 do redis.call('PEXPIRE', KEYS[key], ${2 * TTL_MS_MAX}) end
end
local function forget()
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', int(now), 'LIMIT', 0, 200)) do
    redis.call('ZREM', KEYS[3], gone)
    redis.call('DECRBY', KEYS[2], string.match(gone, '^%d+'))
  end
end
`;

/** ARGV: fingerprint, token hash, lease in ms, ttl in ms, records max. */
export const CLAIM = script(`${common}${places}
if found then
  if r[1] ~= ARGV[2] then return { 'mismatch' } end
  if completed then
    local kept = redis.call('HMGET', KEYS[1], 's', 'n', 'b')
    return { 'replay', kept[1], kept[2], kept[3] or '' }
  end
  local left, lease = tonumber(r[3]) - now, tonumber(ARGV[4])
  if left > 2 * lease then -- set before the clock went back
    left = lease
    redis.call('HSET', KEYS[1], 'l', int(now + lease))
  end
  if left > 0 then return { 'in_progress', int(left) } end
end
forget()
if not found and redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[6]) then return { 'full' } end
enter(0, int(now + ARGV[5]))
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'f', ARGV[2], 't', ARGV[3], 'l', int(now + ARGV[4]), 'e', int(now + ARGV[5]),
  'ttl', ARGV[5], 'c', '0', 'n', '0')
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return { 'execute', found and '1' or '0' }
`);

/** ARGV: token hash, status, ttl in ms or empty, full response or empty, response without body, stored bytes max. */
export const COMPLETE = script(`${common}${places}
local result = outcome(ARGV[2])
if result == 'completed' and r[2] == ARGV[2] then return { 'ok', r[7] } end
if result ~= 'ok' then return { result, '0' } end
local ttl = ARGV[4] ~= '' and ARGV[4] or r[6]
local ends = int(now + ttl)
forget()
local sum = tonumber(redis.call('GET', KEYS[2]) or 0)
local kept, stored = '', '0'
for i = 5, 6 do
  local size = #ARGV[i]
  if kept == '' and size > 0 and sum + size <= tonumber(ARGV[7]) then
    kept, stored = ARGV[i], i == 5 and '1' or '0'
  end
end
redis.call('ZREM', KEYS[3], '0:' .. id)
enter(#kept, ends)
redis.call('HSET', KEYS[1], 'c', '1', 's', ARGV[3], 'n', stored, 'b', kept, 'e', ends, 'ttl', ttl)
redis.call('PEXPIRE', KEYS[1], ttl)
return { 'ok', stored }
`);

/** ARGV: token hash. */
export const RELEASE = script(`${common}
local result = outcome(ARGV[2])
if result == 'ok' then
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[3], '0:' .. id)
end
return { result }
`);

/** ARGV: token hash, lease in ms. A heartbeat extends the record's life too. */
export const HEARTBEAT = script(`${common}
local result = outcome(ARGV[2])
if result == 'ok' then
  local lease = now + ARGV[3]
  local ends = math.max(tonumber(r[4]), lease)
  redis.call('HSET', KEYS[1], 'l', int(lease), 'e', int(ends))
  redis.call('PEXPIRE', KEYS[1], int(ends - now))
  redis.call('ZADD', KEYS[3], 'XX', int(ends), '0:' .. id)
end
return { result }
`);
