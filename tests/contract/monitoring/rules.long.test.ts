// SPDX-License-Identifier: Apache-2.0
// Prometheus parses the rules and the dashboard's queries, and each alert fires only when it should.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, parseAllDocuments, stringify } from "yaml";
import { STORIES } from "./stories.ts";

const ROOT = join(import.meta.dirname, "../../..");
const FOLDER = join(ROOT, "packages/common/manifests/monitoring");
const TOOLS = join(ROOT, ".cache/promtool");
const METRIC = /\b(?:patchbay|kubevirt)_\w+/g;
/** Series of a histogram. */
const PARTS = /_(bucket|count|sum)$/;

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}

interface Rules {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
}

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

const { spec } = parse(readFileSync(join(FOLDER, "rules.yaml"), "utf8")) as {
  readonly spec: Rules;
};
const rules = spec.groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(readFileSync(join(FOLDER, "dashboard.json"), "utf8")) as {
  readonly panels: readonly Panel[];
};
const questions = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ title, expr: expr.replaceAll("$__rate_interval", "5m") })),
);
const documented = new Set(
  [...readFileSync(join(ROOT, "docs/reference/metrics.md"), "utf8").matchAll(METRIC)].map(
    ([name]) => name,
  ),
);

let directory: string;

/** Runs promtool on a file of that text; throws with its output. */
function promtool(command: readonly string[], name: string, text: string): string {
  const file = join(directory, name);
  writeFileSync(file, text);
  return execFileSync(join(TOOLS, "promtool"), [...command, file], {
    encoding: "utf8",
    stdio: "pipe",
  });
}

beforeAll(() => {
  execFileSync(join(ROOT, "hack/fetch-promtool"), [TOOLS], { stdio: "inherit" });
  directory = mkdtempSync(join(tmpdir(), "rules-"));
}, 120_000);

afterAll(() => {
  rmSync(directory, { recursive: true });
});

test("Prometheus accepts the rules", () => {
  const output = promtool(["check", "rules"], "rules.yaml", stringify(spec));
  expect(output).toContain(`SUCCESS: ${String(rules.length)} rules found`);
});

test("Prometheus accepts the dashboard's queries", () => {
  const requested = questions.map(({ expr }, index) => ({ record: `q${String(index)}`, expr }));
  const text = stringify({ groups: [{ name: "dashboard", rules: requested }] });
  const output = promtool(["check", "rules"], "dashboard.yaml", text);
  expect(output).toContain(`SUCCESS: ${String(questions.length)} rules found`);
});

test.each([...rules.map(({ alert, expr }) => ({ title: alert, expr })), ...questions])(
  "$title queries documented metrics",
  ({ expr }) => {
    const names = [...expr.matchAll(METRIC)].map(([name]) => name.replace(PARTS, ""));
    expect(names.filter((name) => !documented.has(name))).toEqual([]);
  },
);

describe.each(rules)("$alert", ({ alert, annotations }) => {
  test("has a runbook", () => {
    const [page = "", section] = annotations["runbook"]?.split("#") ?? [];
    expect(section).toBe(alert.toLowerCase());
    expect(readFileSync(join(ROOT, page), "utf8")).toMatch(new RegExp(`^## ${alert}$`, "m"));
  });

  test("fires only when it should", () => {
    const scenarios = STORIES.filter((scenario) => scenario.alert === alert);
    expect(new Set(scenarios.map(({ fires }) => fires))).toEqual(new Set([true, false]));
    writeFileSync(join(directory, "rules.yaml"), stringify(spec));
    const tests = scenarios.map(({ series, after, fires }) => ({
      interval: "1m",
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      promql_expr_test: [
        {
          expr: `count(ALERTS{alertname="${alert}", alertstate="firing"}) or vector(0)`,
          eval_time: after,
          exp_samples: [{ labels: "{}", value: fires ? 1 : 0 }],
        },
      ],
    }));
    const text = stringify({ rule_files: ["rules.yaml"], evaluation_interval: "1m", tests });
    expect(promtool(["test", "rules"], "tests.yaml", text)).toContain("SUCCESS");
  });
});

test("kubectl renders the folder with its dashboard", () => {
  const text = execFileSync("kubectl", ["kustomize", FOLDER], { encoding: "utf8" });
  const objects = parseAllDocuments(text).map(
    (one) => one.toJS() as { readonly kind: string; readonly data?: Record<string, string> },
  );
  expect(objects.map(({ kind }) => kind).sort()).toEqual([
    "ConfigMap",
    "PrometheusRule",
    "Service",
    "ServiceMonitor",
  ]);
  const [config] = objects.filter(({ kind }) => kind === "ConfigMap");
  expect(JSON.parse(config?.data?.["dashboard.json"] ?? "")).toEqual(dashboard);
});
