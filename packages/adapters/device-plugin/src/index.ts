// SPDX-License-Identifier: Apache-2.0
export { offerDevice } from "./offer-device.ts";
export { offerAllSockets, offerSockets } from "./offer-sockets.ts";
export { createNoPodDevices, createPodDevices } from "./pod-devices.ts";
