// SPDX-License-Identifier: Apache-2.0
import { createFakeDeviceNodes } from "../fakes/device-nodes.ts";
import { describeDeviceNodesContract } from "./device-nodes.ts";

describeDeviceNodesContract("in memory", () => {
  const fake = createFakeDeviceNodes();
  return Promise.resolve({
    nodes: fake,
    directory: "/devices",
    put: (path, facts) => void fake.nodes.set(path, facts),
    take: (path) => void fake.nodes.delete(path),
    find: (path) => fake.nodes.get(path),
    close: () => Promise.resolve(),
  });
});
