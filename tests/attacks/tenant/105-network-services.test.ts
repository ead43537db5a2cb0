// SPDX-License-Identifier: Apache-2.0
// Users without rights on slices that make virt-controller write foreign addresses into them.
import type { NetworkAttachmentDefinition } from "@patchbay/api";
import { networkServicePlan } from "@patchbay/core/services";
import { expect, test } from "vitest";
import {
  aBlueDefinition,
  aNetworkService,
  aServedVmi,
} from "../../../packages/control-plane/core/src/testing/network-services.ts";

const VICTIM = "10.244.3.7";
const TRUSTED = ["default", "kube-system", "patchbay"];

function addressesOf(
  network: string,
  definition: NetworkAttachmentDefinition,
  ips: readonly string[],
): readonly string[] {
  const service = aNetworkService({}, { "k8s.v1.cni.cncf.io/service-network": network });
  const networkName = network.includes("/") ? network : `default/${network}`;
  const vmis = [aServedVmi("vm1", ips, { attachment: { networkName } })];
  const facts = { service, vmis, definition, trustedNamespaces: TRUSTED };
  return networkServicePlan(facts).slices.flatMap(({ endpoints = [] }) =>
    endpoints.flatMap(({ addresses }) => addresses),
  );
}

test("attack 105: ignores a tenant's definition that assigns another pod's address", () => {
  const definition = aBlueDefinition({
    ipam: { type: "static", addresses: [{ address: `${VICTIM}/24` }] },
  });
  expect(addressesOf("red/blue", definition, [VICTIM])).toEqual([]);
  // An administrator's own definition may.
  expect(addressesOf("blue", definition, [VICTIM])).toEqual([VICTIM]);
});

test("attack 105: ignores a pod's annotation that claims another pod's address", () => {
  expect(addressesOf("blue", aBlueDefinition(), [VICTIM, "10.77.1.5"])).toEqual(["10.77.1.5"]);
});

test.each(["/blue", "default/blue/../red", "default/blue,red/blue", "*", "default/"])(
  "attack 105: rejects a network named %j",
  (network) => {
    expect(addressesOf(network, aBlueDefinition(), ["10.77.1.5"])).toEqual([]);
  },
);

test("attack 105: labels do not select VMs of another namespace", () => {
  const vmis = [aServedVmi("vm1", ["10.77.1.5"], { metadata: { namespace: "red" } })];
  const service = aNetworkService();
  const facts = { service, vmis, definition: aBlueDefinition(), trustedNamespaces: TRUSTED };
  expect(networkServicePlan(facts)).toEqual({ slices: [] });
});
