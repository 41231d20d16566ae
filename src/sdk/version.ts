// The name and version in the library's reports. A test keeps it equal to the package's version.

export const SDK_NAME = "@keyrack/sdk";
export const SDK_VERSION = "0.1.0";
