// SPDX-License-Identifier: Apache-2.0
import type { Pod, VirtualMachine } from "@patchbay/api";
import { expect, test } from "vitest";
import { usersOf } from "./users.ts";

function podOf(name: string, change: Partial<Pod["spec"]>, phase: "Running" | "Failed"): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: "ns", name },
    spec: { containers: [{ name: "c", image: "virt-launcher" }], ...change },
    status: { phase },
  };
}

const VOLUMES = { volumes: [{ name: "boot", image: { reference: "guest" } }] };

function vmOf(name: string, image: string): VirtualMachine {
  const firmware = { kernelBoot: { container: { image } } };
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { namespace: "ns", name },
    spec: { template: { spec: { domain: { firmware } } } },
  };
}

test("pods that run from an image and VMs that start from it use it", () => {
  const pods = [
    podOf("a", VOLUMES, "Running"),
    podOf("b", {}, "Running"),
    podOf("c", VOLUMES, "Failed"),
  ];
  const vms = [vmOf("v", "guest"), vmOf("w", "other")];
  expect(usersOf("guest", pods, vms)).toEqual(["pod ns/a", "virtualmachine ns/v"]);
  expect(usersOf("virt-launcher", pods, vms)).toEqual(["pod ns/a", "pod ns/b"]);
  expect(usersOf("none", pods, vms)).toEqual([]);
});
