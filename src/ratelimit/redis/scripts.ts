// The three Lua scripts of the Redis counter: the same arithmetic as kernel/ratelimit/window.ts, on Redis' own clock.
// How a counter is stored: script-parts.ts.
import { LEASE_MAX_MS, SUB_WINDOWS } from "../../kernel/ratelimit/window.ts";
import { script } from "./script.ts";
import { clock, newcomers, rules } from "./script-parts.ts";

// Fast path for the usual check: one sliding rule with room and nothing expired, in local variables. The general code
// below decides the same. bench: limiter/redis-check
const fastPath = `
local function fast_path(key, limit, window, cost)
  local head = window > 0 and call('HGET', key, 'h')
  if not head then return false end
  local span = floor(now * ${SUB_WINDOWS} / window)
  local total, oldest, newest, here = struct_unpack('<dddd', head)
  if total == 0 or total + cost > limit or oldest < span - ${SUB_WINDOWS} or span < newest then return false end
  total = total + cost
  if span == newest then
    call('HSET', key, 'h', pack('<dddd', total, oldest, newest, here + cost))
  else
    if here > 0 then
      call('HSET', key, 'h', pack('<dddd', total, oldest, span, cost), newest, here)
    else
      call('HSET', key, 'h', pack('<dddd', total, oldest, span, cost))
    end
    call('PEXPIRE', key, ceil((span + ${SUB_WINDOWS + 1}) * window / ${SUB_WINDOWS}) - now + grace)
  end
  answer[size + 1] = limit - total
  answer[size + 2] = ceil((oldest + ${SUB_WINDOWS + 1}) * window / ${SUB_WINDOWS}) - now
  answer[size + 3] = 0
  size = size + 3
  return true
end
`;

/**
 * Several checks in sequence. KEYS: their counters. ARGV: 1 when each check has its own time (tests), else 0; the bound
 * of a cell; then for each check 32 × its cost + 16 for test + its number of rules, the rules, its time. Returns
 * remaining, reset and wait per rule (wait 0 allows, -1 never will), then how many rules used an overflow counter.
 */
const check = `
local timed, at, key = ARGV[1] == '1', 3, 0
bound = tonumber(ARGV[2])
if not timed then tick('') end
local all, waits = {}, {}
local function decide(cost, count, env)
  local need, allowed = cost > 0 and cost or 1, true
  for i = 1, count do
    local rule = at + 3 * i
    all[i] = read(i, KEYS[key + i], tonumber(ARGV[rule - 2]), tonumber(ARGV[rule - 1]), ARGV[rule], env)
    waits[i] = wait(all[i], need)
    if waits[i] ~= 0 then allowed = false end
  end
  for i = 1, count do
    local r = all[i]
    if allowed and cost > 0 then charge(r, r.span, cost) end
    report(r, waits[i])
  end
end
while at <= #ARGV do
  local head = tonumber(ARGV[at])
  local count = head % 16
  local env = floor(head / 16) % 2
  local cost = floor(head / 32)
  if timed then tick(ARGV[at + 3 * count + 1]) end
  local done = cost > 0 and count == 1 and fast_path(KEYS[key + 1], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), cost)
  if not done then decide(cost, count, env) end
  key, at = key + count, at + 3 * count + (timed and 2 or 1)
end
return reply()
`;

/**
 * KEYS: counters, then the lease. ARGV: units wanted, time, the bound of a cell, 1 for test, the rules. Returns
 * granted, expires_in_ms, then as check.
 */
const lease = `
tick(ARGV[2])
bound = tonumber(ARGV[3])
local granted, length, all = tonumber(ARGV[1]), ${LEASE_MAX_MS}, {}
for i = 1, #KEYS - 1 do
  local rule = 4 + 3 * i
  local r = read(i, KEYS[i], tonumber(ARGV[rule - 2]), tonumber(ARGV[rule - 1]), ARGV[rule], ARGV[4])
  all[i] = r
  granted = math.max(0, math.min(granted, r.limit - r.total))
  length = math.min(length, floor(r.window / 10))
  if r.fixed then length = math.min(length, lapses(r, r.span) - now) end
end
if granted == 0 then length = 0 end
answer[1], answer[2], size = granted, length, 2
local held = { int(granted), int(now + length) }
for _, r in ipairs(all) do
  if granted > 0 then
    local span = r.fixed and r.span or floor((now + length) * ${SUB_WINDOWS} / r.window)
    charge(r, span, granted)
    held[#held + 1] = r.key
    held[#held + 1] = int(span)
  end
  report(r, 0)
end
if granted > 0 then call('SET', KEYS[#KEYS], table.concat(held, ' '), 'PX', length + grace) end
return reply()
`;

/** KEYS: the lease, then its counters in its order. ARGV: units unused, time. Returns how many were credited. */
const returnLease = `
tick(ARGV[2])
local function uncharge(key, span, back)
  local head = call('HGET', key, 'h')
  if not head then return end
  local total, oldest, newest, here = struct_unpack('<dddd', head)
  local booked = span == newest and here or tonumber(call('HGET', key, span)) or 0
  local units = math.min(back, booked)
  if units == 0 then return end
  if span == newest then here = here - units
  elseif units == booked then call('HDEL', key, span)
  else call('HINCRBY', key, span, -units) end
  if span == oldest and units == booked then
    oldest = newest
    for other in pairs(spans_of(key, newest, here)) do
      if other < oldest then oldest = other end
    end
  end
  call('HSET', key, 'h', pack('<dddd', total - units, oldest, newest, here))
end

local text = call('GET', KEYS[1])
if not text then return 0 end
call('DEL', KEYS[1])
local held = {}
for part in string.gmatch(text, '%S+') do held[#held + 1] = part end
if now >= tonumber(held[2]) then return 0 end
local back = math.max(0, math.min(tonumber(ARGV[1]), tonumber(held[1])))
for i = 2, #KEYS do uncharge(KEYS[i], tonumber(held[2 * i]), back) end
return back
`;

export const CHECK = script(clock + newcomers + rules + fastPath + check);
export const LEASE = script(clock + newcomers + rules + lease);
export const RETURN_LEASE = script(clock + returnLease);
/** As GETDEL of Redis 6.2. */
export const TAKE_RECORD = script("local text = redis.call('GET', KEYS[1]) redis.call('DEL', KEYS[1]) return text");

/** Whether Redis lets this user run scripts with the commands of a counter. KEYS: a key of its own. */
export const PROBE = script(`
redis.call('TIME')
redis.call('HSET', KEYS[1], 'h', '1')
return redis.call('PEXPIRE', KEYS[1], 1000)`);
