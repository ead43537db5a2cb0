// SPDX-License-Identifier: Apache-2.0
// The public door of device-plugin.
export { DEVICE_PLUGIN_DIRECTORY } from "./protocol.ts";
