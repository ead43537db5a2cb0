// SPDX-License-Identifier: Apache-2.0
// The fake of CNI keeps the contract.
import { createFakeCni } from "../fakes/cni.ts";
import { AppError } from "@patchbay/base";
import { describeCniContract, describeNewCniContract } from "./cni.ts";

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

describeNewCniContract("fake", () => {
  const cni = createFakeCni();
  return Promise.resolve({
    cni,
    requestFor: (interfaceName) => ({
      containerId: "box-1",
      netnsPath: "/run/netns/box-1",
      interfaceName,
      config: { cniVersion: "1.1.0", name: "blue", plugins: [{ type: "keeper" }] },
      args: [],
      capabilityArgs: {},
    }),
    listHeld: () =>
      Promise.resolve(cni.attachments.map((name) => name.replace("box-1/", "")).toSorted()),
    breakDown: () => {
      const failure = { plugin: "keeper", command: "STATUS", message: "down", cniCode: 50 };
      cni.failNext("status", new AppError("CNI_PLUGIN_FAILED", failure));
    },
    close: () => Promise.resolve(),
  });
});
