// Stands in for node-gyp-build in the single binary. argon2 asks for its addon at import, before the settings say where
// it may be unpacked: it gets a function that fetches the addon at its first call.
const { nativeAddon } = require("../../src/platform/native-addons.ts");

module.exports = () => ({ hash: (...args) => nativeAddon("argon2").hash(...args) });
