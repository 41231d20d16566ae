// What the Lua scripts of the Redis counter share: a counter's fields, its bound, and how a rule is read and charged.
// Caution: Lua 5.1 has only doubles. As a command argument an integer arrives intact (Redis prints 17 digits), but
// Lua's own `..` and table.concat print 14, so numbers in a text go through `int` first; and a reply has integers only
// (Redis truncates fractions).
//
// A counter is a hash. Field `h` is four doubles: the sum of all spans, the oldest span holding units, the newest span
// and its units. Every older span is a field of its own, "<span>" = units. So a check reads and writes one field; all
// of them are read only after a span has expired, or to deny. The key expires when its newest span does. A lease is a
// string, "granted end key span key span …", that Redis deletes at the lease's end.
//
// A new counter is counted by its cell and the class of its window, in a number that expires with the class. It leaves
// a mark that expires with the number: a counter that expired and is opened again must not count twice. At the bound a
// counter without a mark is not opened; its rule's overflow counter is used instead. A mark is a key of its own and not
// a member of a set: Redis frees a large set at once, during which it serves no other workspace. All these keys have
// the hash tag of the workspace, so they are on the same node although they are not declared.
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { SUB_WINDOWS, SUB_WINDOWS_AHEAD } from "../../kernel/ratelimit/window.ts";

/** Under a test's clock, Redis' own clock must not expire a key that the test still counts. */
const TEST_GRACE_MS = 600_000;

// `now` comes from ARGV in tests only; an empty text means Redis' own clock.
export const clock = `
local call, floor, ceil, tonumber, pack, struct_unpack = redis.call, math.floor, math.ceil, tonumber, struct.pack, struct.unpack
local now, grace
local function tick(given)
  now, grace = tonumber(given), ${TEST_GRACE_MS}
  if now then return end
  local time = call('TIME')
  now, grace = time[1] * 1000 + floor(time[2] / 1000), 0
end

local function spans_of(key, newest, here)
  local found, flat = {}, call('HGETALL', key)
  for i = 1, #flat, 2 do
    local span = tonumber(flat[i])
    if span then found[span] = tonumber(flat[i + 1]) end
  end
  if here > 0 then found[newest] = here end
  return found
end

local function int(x) return string.format('%.0f', x) end
`;

// The window classes: how long the number of a cell's new counters is kept.
export const newcomers = `
local classes = { ${MINUTE_MS}, ${HOUR_MS}, ${DAY_MS}, ${31 * DAY_MS} }
local bound
local function class_of(key, env, window)
  local i = 1
  while i < #classes and window > classes[i] do i = i + 1 end
  return string.match(key, '^.-}:') .. 'new:' .. env .. i, classes[i]
end
local function mark_of(key) return key .. ':new' end
local function count_newcomer(r)
  if call('EXISTS', mark_of(r.key)) == 1 then return end
  local number, length = class_of(r.key, r.env, r.window)
  if call('INCR', number) == 1 then call('PEXPIRE', number, length + grace) end
  call('SET', mark_of(r.key), '', 'PX', math.max(1, call('PTTL', number)))
end
local function has_room(key, env, window)
  return tonumber(call('GET', (class_of(key, env, window))) or 0) < bound or call('EXISTS', mark_of(key)) == 1
end
`;

// A rule is three arguments, limit, window and its own name; the window of a fixed rule is negative. Its table is
// reused by the next check of the batch. `first` is the oldest span that counts, `gone` are the expired ones.
//
// Units further ahead than a lease books them are from before this server's clock was set back, or from another server.
// They are moved at once, also by a check that is denied, or they would count until their time comes again: to where a
// lease granted now would be, because they may be a lease's, or into the present fixed window. The next fixed window is
// left as it is: it may have begun already, and must not admit the same units again.
export const rules = `
local pool, overflowed = {}, 0
local function lapses(r, span)
  if r.fixed then return (span + 1) * r.window end
  return ceil((span + ${SUB_WINDOWS + 1}) * r.window / ${SUB_WINDOWS})
end

local function pull_back(r, first)
  local last = r.fixed and r.span or r.span + ${SUB_WINDOWS_AHEAD}
  local found = spans_of(r.key, r.newest, r.here)
  call('DEL', r.key)
  r.total, r.oldest, r.newest, r.here = 0, last, last, 0
  for span, units in pairs(found) do
    if span >= first then r.total = r.total + units end
    if span >= last then r.here = r.here + units
    elseif span >= first then
      call('HSET', r.key, span, units)
      if span < r.oldest then r.oldest = span end
    end
  end
  call('HSET', r.key, 'h', pack('<dddd', r.total, r.oldest, r.newest, r.here))
  call('PEXPIRE', r.key, lapses(r, last) - now + grace)
end

local function read(i, key, limit, window, rule, env)
  local r = pool[i]
  if not r then
    r = {}
    pool[i] = r
  end
  r.key, r.limit, r.fixed, r.window, r.gone = key, limit, window < 0, math.abs(window), nil
  r.span = floor(r.fixed and now / r.window or now * ${SUB_WINDOWS} / r.window)
  r.total, r.oldest, r.newest, r.here = 0, 0, 0, 0
  local head = call('HGET', key, 'h')
  r.env, r.new = env, not head and has_room(key, env, r.window)
  if not head and not r.new then
    key = string.match(key, '^.-}:') .. 'rest:' .. rule
    r.key, head = key, call('HGET', key, 'h')
    overflowed = overflowed + 1
  end
  if not head then return r end
  r.total, r.oldest, r.newest, r.here = struct_unpack('<dddd', head)
  local first = r.fixed and r.span or r.span - ${SUB_WINDOWS}
  if r.total > 0 and r.newest > r.span + (r.fixed and 1 or ${SUB_WINDOWS_AHEAD}) then pull_back(r, first) end
  if r.total == 0 or r.oldest >= first then return r end
  r.total, r.oldest, r.gone = 0, r.newest, {}
  for span, units in pairs(spans_of(key, r.newest, r.here)) do
    if span < first then
      r.gone[#r.gone + 1] = span
    else
      r.total = r.total + units
      if span < r.oldest then r.oldest = span end
    end
  end
  return r
end

local function wait(r, need)
  if need > r.limit then return -1 end
  local over = r.total + need - r.limit
  if over <= 0 then return 0 end
  local found = spans_of(r.key, r.newest, r.here)
  for span = r.oldest, r.newest do
    over = over - (found[span] or 0)
    if over <= 0 then return lapses(r, span) - now end
  end
  return r.window
end

local function charge(r, span, units)
  local newer
  if r.total == 0 then
    if r.new then
      count_newcomer(r)
      r.new = false
    end
    call('DEL', r.key)
    r.oldest, r.newest, r.here, newer = span, span, 0, true
  else
    if r.gone then call('HDEL', r.key, unpack(r.gone)) end
    if span < r.oldest then r.oldest = span end
    newer = span > r.newest
    if newer then
      if r.here > 0 then call('HSET', r.key, r.newest, r.here) end
      r.newest, r.here = span, 0
    end
  end
  if span == r.newest then r.here = r.here + units else call('HINCRBY', r.key, span, units) end
  r.total = r.total + units
  call('HSET', r.key, 'h', pack('<dddd', r.total, r.oldest, r.newest, r.here))
  if newer then call('PEXPIRE', r.key, lapses(r, span) - now + grace) end
end

local answer, size = {}, 0
local function report(r, pause)
  local reset = 0
  if r.total > 0 then reset = lapses(r, r.oldest) - now
  elseif r.fixed then reset = lapses(r, r.span) - now end
  answer[size + 1] = r.total < r.limit and r.limit - r.total or 0
  answer[size + 2] = reset
  answer[size + 3] = pause
  size = size + 3
end
local function reply()
  answer[size + 1] = overflowed
  return answer
end
`;
