// Replaces node-gyp-build in the single binary. argon2 requests its addon at import, before the settings say where it
// may be unpacked: it gets a function that loads the addon at its first call.
const { nativeAddon } = require("../../src/platform/native-addons.ts");

module.exports = () => ({ hash: (...args) => nativeAddon("argon2").hash(...args) });
