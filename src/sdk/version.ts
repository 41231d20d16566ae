// What the library calls itself in its reports. A test holds it to the package's own version.

export const SDK_NAME = "@keyrack/sdk";
export const SDK_VERSION = "0.1.0";
