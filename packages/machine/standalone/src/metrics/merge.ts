// SPDX-License-Identifier: Apache-2.0
// The metrics of several services as one text. Pure. Source: Prometheus exposition formats, text format 0.0.4.

/** What one service printed. */
export interface ServiceMetrics {
  readonly service: string;
  /** Unset: it did not answer. */
  readonly text: string | undefined;
}

interface Family {
  /** Lines `# HELP` and `# TYPE`, by their first two words. */
  readonly head: Map<string, string>;
  readonly samples: string[];
}

const COMMENT = /^# (HELP|TYPE) (\S+)/;
const SAMPLE_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*/;

/** The sample with the label of its service, which keeps equal samples of two services apart. */
function labeled(line: string, service: string): string {
  const [name = ""] = SAMPLE_NAME.exec(line) ?? [];
  const rest = line.slice(name.length);
  const label = `service="${service}"`;
  if (!rest.startsWith("{")) return `${name}{${label}}${rest}`;
  return `${name}{${label}${rest.startsWith("{}") ? "" : ","}${rest.slice(1)}`;
}

function addText(families: Map<string, Family>, text: string, service: string): void {
  let family: Family | undefined;
  for (const line of text.split("\n").filter((one) => one !== "")) {
    const [, word = "", name] = COMMENT.exec(line) ?? [];
    if (name !== undefined) {
      family = families.get(name) ?? { head: new Map(), samples: [] };
      families.set(name, family);
      if (!family.head.has(word)) family.head.set(word, line);
    } else if (SAMPLE_NAME.test(line)) {
      // A service prints the head of a family before its samples.
      family?.samples.push(labeled(line, service));
    }
  }
}

function upLines(all: readonly ServiceMetrics[]): readonly string[] {
  return [
    "# HELP patchbay_service_up 1 where the service answered this request.",
    "# TYPE patchbay_service_up gauge",
    ...all.map(
      ({ service, text }) =>
        `patchbay_service_up{service="${service}"} ${text === undefined ? "0" : "1"}`,
    ),
  ];
}

/** Each family once, with the samples of all services. */
export function mergeMetrics(all: readonly ServiceMetrics[]): string {
  const families = new Map<string, Family>();
  for (const { service, text = "" } of all) addText(families, text, service);
  const lines = [...families.values()].flatMap(({ head, samples }) => [
    ...head.values(),
    ...samples,
  ]);
  return [...upLines(all), ...lines, ""].join("\n");
}
