// SPDX-License-Identifier: Apache-2.0
export { isSpecialAddress, readTrustedNamespaces } from "./allowed-addresses.ts";
export {
  NETWORK_SLICE_WRITER,
  networkServicePlan,
  listServiceInputs,
  selectsVmi,
} from "./network-service.ts";
export { hasReachCondition, planReachCondition } from "./reach.ts";
export { requestedNetworks, trimService, parseServiceRequest } from "./service-request.ts";
export { planSlices, findServiceKey, type ServicePart, slicesOfParts } from "./slices.ts";
