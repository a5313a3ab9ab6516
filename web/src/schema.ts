// Made by tools/web_types.py from src/headway/report/html/schema.py: change it there.

/** One cell of an experiment, for plots. */
export interface Cell {
  readonly series: string;
  readonly setting: string;
  readonly model: string;
  readonly line: string;
  readonly placement: string;
  readonly interpreter: string;
  readonly x: number | null;
  readonly y: number | null;
  readonly metrics: Readonly<Record<string, Measure>>;
  readonly cores: Readonly<Record<string, number>>;
  readonly course: readonly Stretch[];
  readonly samples: readonly number[];
}

/** A claim and its outcomes. */
export interface Claimed {
  readonly id: string;
  readonly experiment: string;
  readonly text: string;
  readonly source: string;
  readonly published: string;
  readonly outcome: string;
  readonly outcomes: readonly Outcome[];
}

/** A column of unsigned numbers in a block. */
export interface Column {
  readonly name: string;
  readonly rows: number;
  readonly width: number;
}

/** Two runs side by side. */
export interface Compared {
  readonly title: string;
  readonly changed: readonly string[];
  readonly table: Table;
  readonly ratios: readonly Ratio[];
}

/** The numbers of claims by outcome. */
export interface Counted {
  readonly summary: string;
  readonly doubts: readonly string[];
  readonly named: readonly Outcome[];
}

/** A figure over a swept parameter. */
export interface Curve {
  readonly title: string;
  readonly unit: "s" | "per_s" | "bytes" | "bytes_per_s" | "share" | "count";
  readonly x: string;
  readonly x_values: readonly string[];
  readonly x_numbers: readonly number[];
  readonly lines: readonly CurveLine[];
}

/** One line of a curve: the points with one combination of the other parameters. */
export interface CurveLine {
  readonly name: string;
  readonly points: readonly CurvePoint[];
}

/** A point of a curve. */
export interface CurvePoint {
  readonly x: number;
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly shown: string;
}

/** A finding of a run, with its evidence and the advice that follows. */
export interface Finding {
  readonly experiment: string;
  readonly claim: string;
  readonly text: string;
  readonly evidence: string;
  readonly advice: string;
}

/** A distinct frame: its function, its file and line in short, and the file's whole path. */
export interface FlameFrame {
  readonly function: string;
  readonly place: string;
  readonly file: string;
}

/** One GIL, with its use in words. */
export interface Gil {
  readonly name: string;
  readonly summary: string;
}

/** An interpreter that a run measured. */
export interface Interpreter {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly free_threaded: boolean;
}

/** One experiment of a run: its question, measured and published tables, and its claims. */
export interface LabExperiment {
  readonly name: string;
  readonly question: string;
  readonly method: string;
  readonly included: string;
  readonly tables: readonly Table[];
  readonly notes: readonly string[];
  readonly published: readonly Table[];
  readonly claims: readonly Claimed[];
  readonly baseline: string;
  readonly plots: readonly Plot[];
  readonly cells: readonly Cell[];
}

/** A run of the lab. */
export interface LabPage {
  readonly kind: "lab";
  readonly title: string;
  readonly version: string;
  readonly heading: readonly string[];
  readonly legend: readonly string[];
  readonly warnings: readonly string[];
  readonly cores: number;
  readonly interpreters: readonly Interpreter[];
  readonly counts: Counted;
  readonly findings: readonly Finding[];
  readonly experiments: readonly LabExperiment[];
  readonly costs: Table | null;
  readonly sources: readonly (readonly [string, string])[];
  readonly failures: readonly string[];
  readonly left_out: readonly string[];
  readonly compared: Compared | null;
}

/** A thread at one GIL, or at the locks of a build without a GIL. */
export interface Lane {
  readonly label: string;
  readonly thread: number;
  readonly gil: number;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly first_hold: number;
  readonly holds: number;
  readonly first_wait: number;
  readonly waits: number;
  readonly held_ns: number;
  readonly waited_ns: number;
  readonly summary: string;
}

/** Something to look at: one of the longest holds, of the waits in a convoy, or of the times at a lock of the program. */
export interface Mark {
  readonly kind: "hold" | "convoy" | "lock";
  readonly text: string;
  readonly lane: number;
  readonly at_ns: number;
  readonly until_ns: number;
}

/** A metric of a cell. */
export interface Measure {
  readonly values: readonly number[];
  readonly level: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly shown: string;
}

/** The outcome of a claim on some interpreters. */
export interface Outcome {
  readonly outcome: string;
  readonly figures: string;
  readonly sentence: string;
}

/** A way to draw some of an experiment's cells. */
export interface Plot {
  readonly kind: "dots" | "histogram" | "lines" | "heat" | "percentiles" | "cores";
  readonly title: string;
  readonly metrics: readonly string[];
  readonly unit: "s" | "per_s" | "bytes" | "bytes_per_s" | "share" | "count";
  readonly better: "less" | "more" | "";
  readonly x: string;
  readonly y: string;
  readonly x_unit: "s" | "per_s" | "bytes" | "bytes_per_s" | "share" | "count";
  readonly y_unit: "s" | "per_s" | "bytes" | "bytes_per_s" | "share" | "count";
  readonly ideal: "divided" | "multiplied" | "";
}

/** One cell of two runs. */
export interface Ratio {
  readonly experiment: string;
  readonly cell: string;
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly verdict: string;
  readonly better: boolean | null;
}

/** A heading with tables. */
export interface Section {
  readonly title: string;
  readonly tables: readonly Table[];
  readonly each: Table | null;
}

/** A simulation: of a scenario, a sweep, or a traced program with a change. */
export interface SimulationPage {
  readonly kind: "simulation";
  readonly title: string;
  readonly version: string;
  readonly lines: readonly string[];
  readonly sections: readonly Section[];
  readonly notes: readonly (readonly ["rests on" | "outside the model" | "note", string])[];
  readonly curves: readonly Curve[];
  readonly views: readonly TraceView[];
}

/** A stretch of a cell's launches, as the mean over them. */
export interface Stretch {
  readonly phase: string;
  readonly until_s: number;
  readonly cores: number | null;
}

/** A table to show. */
export interface Table {
  readonly caption: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly names: number;
}

/** One finding of a trace: a problem, that all is well, or something to know. */
export interface TraceFinding {
  readonly weight: "problem" | "fine" | "note";
  readonly fact: string;
  readonly cause: string;
  readonly advice: string;
  readonly predicted: readonly string[];
}

/** The processes of a trace, or of two side by side. */
export interface TracePage {
  readonly kind: "trace";
  readonly title: string;
  readonly version: string;
  readonly views: readonly TraceView[];
}

/** One process of a trace. */
export interface TraceView {
  readonly title: string;
  readonly label: string;
  readonly launch: string;
  readonly lines: readonly string[];
  readonly begin_ns: number;
  readonly span_ns: number;
  readonly bins: number;
  readonly block: string;
  readonly columns: readonly Column[];
  readonly gils: readonly Gil[];
  readonly lanes: readonly Lane[];
  readonly marks: readonly Mark[];
  readonly findings: readonly TraceFinding[];
  readonly sections: readonly Section[];
  readonly frames: readonly FlameFrame[];
  readonly what_if: string;
}

export type Page = LabPage | TracePage | SimulationPage;
