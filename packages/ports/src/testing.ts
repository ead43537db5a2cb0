// SPDX-License-Identifier: Apache-2.0
// The second door of ports: fakes and contract suites.
export { describeCniContract, type CniBench } from "./contracts/cni.ts";
export { describePodNetworkContract, type PodNetworkBench } from "./contracts/pod-network.ts";
export { createFakeCni, type FakeCni, type FakeCniEffects } from "./fakes/cni.ts";
export { createFakePodNetwork, type FakePodNetwork } from "./fakes/pod-network.ts";
