// SPDX-License-Identifier: Apache-2.0
// The public door of device-plugin.
export { offerDevice } from "./offer-device.ts";
export { offerAllSockets, offerSockets } from "./offer-sockets.ts";
export { createNoPodDevices, createPodDevices } from "./pod-devices.ts";
