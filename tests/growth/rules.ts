// SPDX-License-Identifier: Apache-2.0
// Rules of admission: every list of rules in `packages/control-plane/api/src/validate`.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { VirtualMachine, VmiSpec } from "@patchbay/api";
import { toValidatedSpec, type Rule } from "../../packages/control-plane/api/src/validate/rule.ts";
import { times, type Subject } from "./subject.ts";

const FOLDER = join(import.meta.dirname, "../../packages/control-plane/api/src/validate");
/** Number of entries of each list. It exceeds the limits of validation, because short lists hide a quadratic step. */
const ENTRIES_MAX = 512;

interface RuleList {
  readonly name: string;
  readonly rules: readonly Rule[];
}

/** Returns the names in a list of rules, which the functions themselves lack. */
function readRuleNames(text: string, list: string): string {
  const [, names = ""] = new RegExp(`export const ${list}[^=]*= \\[([^\\]]*)\\]`).exec(text) ?? [];
  return names
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "")
    .join(", ");
}

async function listRules(): Promise<readonly RuleList[]> {
  const files = globSync("**/*.ts", { cwd: FOLDER }).filter((file) => !file.endsWith(".test.ts"));
  const lists = await Promise.all(
    files.toSorted().map(async (file) => {
      const text = readFileSync(join(FOLDER, file), "utf8");
      const exported = (await import(join(FOLDER, file))) as Readonly<Record<string, unknown>>;
      return Object.entries(exported).flatMap(([list, value]) =>
        list.endsWith("_RULES") && Array.isArray(value)
          ? [{ name: `rules of ${file}: ${readRuleNames(text, list)}`, rules: value as Rule[] }]
          : [],
      );
    }),
  );
  return lists.flat();
}

/** Builds lists in an order in which scans find their entry last. `nameOf` determines whether all entries have one name. */
function aSpec(size: number, nameOf: (index: number) => string): VmiSpec {
  const reversed = (index: number): string => nameOf(size - 1 - index);
  const spec = {
    networks: times(size, (index) =>
      index % 2 === 0
        ? { name: nameOf(index), multus: { networkName: `net-${nameOf(index)}` } }
        : {
            name: nameOf(index),
            resourceClaim: { claimName: nameOf(index), requestName: "nic" },
          },
    ),
    resourceClaims: times(size, (index) => ({ name: reversed(index), resourceClaimName: "c" })),
    volumes: times(size, (index) => ({
      name: nameOf(index),
      persistentVolumeClaim: { claimName: "one", readOnly: true },
      cloudInitNoCloud: { userDataBase64: "YQ==" },
    })),
    dnsPolicy: "None",
    dnsConfig: {
      nameservers: times(size, () => "192.0.2.1"),
      searches: times(size, () => "example.org"),
    },
    domain: {
      cpu: { features: times(size, (index) => ({ name: nameOf(index), policy: "force" })) },
      devices: {
        inputs: times(size, (index) => ({ name: nameOf(index), bus: "usb", type: "tablet" })),
        disks: times(size, (index) => ({
          name: reversed(index),
          bootOrder: index + 1,
          disk: { bus: "virtio", readonly: true },
          shareable: true,
          cache: "none",
        })),
        interfaces: times(size, (index) => ({
          name: reversed(index),
          bridge: {},
          state: index % 2 === 0 ? "absent" : "up",
          macAddress: "02:00:00:00:00:01",
          acpiIndex: index + 1,
          bootOrder: size + index + 1,
          ...(index === 0 && {
            ports: times(size, (port) => ({ port: port + 1 })),
            portRanges: times(size, (port) => ({
              protocol: "TCP",
              start: 1 + 2 * port,
              end: 1 + 2 * port,
            })),
            portSecurity: {
              allowedMACs: times(size, () => "02:00:00:00:00:02"),
              allowedAddresses: times(size, () => "192.0.2.1"),
            },
            dhcpOptions: {
              ntpServers: times(size, () => "192.0.2.1"),
              privateOptions: times(size, (option) => ({ option: option + 1, value: "a" })),
            },
          }),
        })),
      },
    },
  };
  return spec;
}

/** Entries with different names, and with one name. */
const NAMINGS = [(index: number) => `n${String(index)}`, () => "n"];

export function aVm(size: number, nameOf: (index: number) => string): VirtualMachine {
  const spec = aSpec(size, nameOf);
  const dataVolumeTemplates = times(size, (index) => ({
    metadata: { name: nameOf(index) },
    spec: { storage: {} },
  }));
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name: "vm", namespace: "t1" },
    spec: { runStrategy: "Always", dataVolumeTemplates, template: { spec } },
  } as unknown as VirtualMachine;
}

export async function listRuleSubjects(): Promise<readonly Subject[]> {
  const lists = await listRules();
  return lists.map(({ name, rules }) => ({
    name,
    limit: ENTRIES_MAX,
    prepare: (size) => {
      const specs = NAMINGS.map((nameOf) => toValidatedSpec(aSpec(size, nameOf), "spec"));
      return () => specs.flatMap((spec) => rules.flatMap((rule) => rule(spec)));
    },
  }));
}
