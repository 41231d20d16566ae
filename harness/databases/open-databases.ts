// The PostgreSQL databases that tests of this process have created and not yet dropped.
export const openDatabases = new Set<string>();
