// h3's own types name two DOM globals that Node's types do not declare.
type HeadersInit = import("undici-types").HeadersInit;
type BodyInit = import("undici-types").BodyInit;
