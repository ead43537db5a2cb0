// SPDX-License-Identifier: Apache-2.0
// The fake of CNI keeps the contract.
import { createFakeCni } from "../fakes/cni.ts";
import { describeCniContract } from "./cni.ts";

describeCniContract("fake", () => {
  const nics = new Set<string>();
  return Promise.resolve({
    cni: createFakeCni({
      attached: (request) => nics.add(request.interfaceName),
      detached: (request) => nics.delete(request.interfaceName),
    }),
    requestFor: (interfaceName) => ({
      containerId: "box-1",
      netnsPath: "/run/netns/box-1",
      interfaceName,
      config: { cniVersion: "1.0.0", name: "blue", plugins: [{ type: "bridge" }] },
      args: [],
      capabilityArgs: {},
    }),
    listNics: () => Promise.resolve([...nics].toSorted()),
    close: () => Promise.resolve(),
  });
});
