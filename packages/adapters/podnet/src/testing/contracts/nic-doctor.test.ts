// SPDX-License-Identifier: Apache-2.0
import { createFakeNicDoctor } from "../fakes/nic-doctor.ts";
import { describeNicDoctorContract } from "./nic-doctor.ts";

describeNicDoctorContract("fake", () => {
  const doctor = createFakeNicDoctor();
  const wiring = {
    ...({
      kind: "bridge",
      podInterfaceName: "pod1",
      bridgeName: "k6t-1",
      tapName: "tap1",
    } as const),
    mac: "02:00:00:00:5e:01",
    mtu: 1500,
  };
  const [pod, node] = [8, 9].map((fd) => ({ fd, inode: String(fd) }));
  if (pod === undefined || node === undefined) throw new Error("no namespaces");
  return Promise.resolve({
    doctor,
    nic: { pod, node, wiring, addresses: ["10.9.0.1"], testsDhcp: false, withinMs: 4000 },
    removeNic: () => {
      doctor.hasNoPodNics = true;
      return Promise.resolve();
    },
    close: () => Promise.resolve(),
  });
});
