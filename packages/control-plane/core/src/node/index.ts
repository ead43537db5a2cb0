// SPDX-License-Identifier: Apache-2.0
export {
  type Definitions,
  isExtendedResource,
  type UnavailableNetworks,
  findUnavailableNetworks,
  trimDefinition,
} from "./definitions.ts";
export { type NodeOffer, planNodeOffers } from "./node-devices.ts";
export {
  hasRun,
  isNodeUnresponsive,
  isSchedulable,
  type NodeLoss,
  findNodeLoss,
  offeredResources,
  trimNode,
} from "./node-loss.ts";
