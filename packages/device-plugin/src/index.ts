// SPDX-License-Identifier: Apache-2.0
// The public door of device-plugin.
export { offerDevice, type OfferDeps, type OfferPlaces } from "./offer-device.ts";
export type { DeviceOffer } from "./offer.ts";
