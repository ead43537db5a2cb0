// SPDX-License-Identifier: Apache-2.0
// KubeVirt's own tables validate the simulated KubeVirt.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { NetworkStatus } from "@patchbay/api/annotations";
import { expect, test } from "vitest";
import {
  annotationOfLive,
  annotationOfNew,
  annotationOfTarget,
  VERSIONS,
  type Version,
} from "./annotation.ts";
import {
  hashedScheme,
  isOrdinal,
  ordinalScheme,
  reportedStatus,
  schemeOf,
  toPlug,
  toUnplug,
  type NameScheme,
  type PlayedNetwork,
  type PlayedVmi,
} from "./vmi.ts";

/** Fields of the simulated rows. */
interface Input {
  readonly fn?: string;
  readonly namespace?: string;
  readonly interfaces?: PlayedVmi["interfaces"];
  readonly networks?: readonly PlayedNetwork[] | null;
  readonly status?: PlayedVmi["status"];
  readonly statuses?: readonly (NetworkStatus | string)[];
  readonly networkStatus?: readonly NetworkStatus[] | null;
  readonly plugins?: PlayedVmi["bindings"];
  readonly currentAnnotation?: readonly object[];
  readonly sourceStatuses?: readonly string[];
  readonly namingUpgradeGate?: boolean;
}

interface Row {
  readonly area: string;
  readonly name: string;
  readonly input: Input;
  readonly expected: unknown;
}

const PATH = "../../../../packages/control-plane/core/src/testing/kubevirt-rows.json";
const ROWS = JSON.parse(readFileSync(join(import.meta.dirname, PATH), "utf8")) as readonly Row[];
const KEY = "k8s.v1.cni.cncf.io/networks";

/** All rows are of v1.9, whose gate may be off. */
function versionOf({ namingUpgradeGate: renames = true }: Input): Version {
  const version = VERSIONS.find(({ name }) => name === "v1.9");
  if (version === undefined) throw new Error("v1.9 is not played");
  return { ...version, renames };
}

function vmiOf({ namespace = "default", interfaces = [], ...input }: Input): PlayedVmi {
  const { networks, status = [], plugins: bindings = {} } = input;
  return { namespace, interfaces, networks: networks ?? [], status, bindings };
}

/** In the rows' form: the list, an empty text, or a missing annotation. */
function written(text: string | undefined): unknown {
  if (text === undefined) return { [KEY]: "(key not set)" };
  return { [KEY]: text === "" ? "" : (JSON.parse(text) as unknown) };
}

function entriesOf(all: readonly (NetworkStatus | string)[] = []): readonly NetworkStatus[] {
  return all.map((one) => (typeof one === "string" ? { name: "", interface: one } : one));
}

const named = (scheme: NameScheme): unknown => Object.fromEntries(scheme);

/** Keyed by the called function. */
const PLAYED: Readonly<Record<string, (input: Input) => unknown>> = {
  generate: (input) => written(annotationOfNew(vmiOf(input), versionOf(input))),
  fromActivePod: (input) => {
    const { currentAnnotation: before, networkStatus } = input;
    const annotation = before === undefined ? "" : JSON.stringify(before);
    const pod = { annotation, seen: networkStatus ?? [] };
    return written(annotationOfLive(vmiOf(input), pod, versionOf(input)));
  },
  fromSource: (input) => {
    const source = { annotation: "", seen: entriesOf(input.sourceStatuses) };
    const target = annotationOfTarget(vmiOf(input), source, versionOf(input));
    // Returns nothing of its own when the target equals a new pod.
    return target === annotationOfNew(vmiOf(input), versionOf(input)) ? null : written(target);
  },
  hashedScheme: ({ networks }) => named(hashedScheme(networks ?? [])),
  ordinalScheme: ({ networks }) => named(ordinalScheme(networks ?? [])),
  schemeFromStatuses: ({ networks, statuses }) =>
    named(schemeOf(networks ?? [], entriesOf(statuses))),
  hasOrdinal: ({ statuses }) => isOrdinal(entriesOf(statuses)),
  live: (input) => [...toPlug(vmiOf(input)), ...toUnplug(vmiOf(input))],
  status: (input) => reportedStatus(vmiOf(input), input.networkStatus ?? []),
};

function playOf({ area, input }: Row): ((input: Input) => unknown) | undefined {
  return area === "status" ? PLAYED["status"] : PLAYED[input.fn ?? ""];
}

test.each(ROWS.filter((row) => playOf(row) !== undefined))("$area: $name", (row) => {
  expect(playOf(row)?.(row.input)).toEqual(row.expected);
});

test("each one has at least one row", () => {
  const reported = new Set(ROWS.map(playOf));
  expect(Object.entries(PLAYED).filter(([, play]) => !reported.has(play))).toEqual([]);
});
