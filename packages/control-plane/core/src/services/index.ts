// SPDX-License-Identifier: Apache-2.0
export { trustedNamespacesOf } from "./allowed-addresses.ts";
export {
  NETWORK_SLICE_WRITER,
  networkServicePlan,
  seenByServices,
  selectsVmi,
} from "./network-service.ts";
export { askedNetworksOf, seenService, serviceAskOf } from "./service-request.ts";
export { planSlices, serviceKeyOf, type ServicePart, slicesOfParts } from "./slices.ts";
