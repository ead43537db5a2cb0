// SPDX-License-Identifier: Apache-2.0
export {
  type Definitions,
  isExtendedResource,
  type NetworkAbsences,
  networksNotOn,
  seenDefinition,
} from "./definitions.ts";
export { type NodeOffer, planNodeOffers } from "./node-devices.ts";
export {
  hasRun,
  isNodeLost,
  isSchedulable,
  type NodeLoss,
  nodeLossOf,
  offeredResources,
  seenNode,
} from "./node-loss.ts";
