"""What a chat must be, in a few words each: the facts of the specification by their numbers, and who must show them.

A line is a number, a letter and words. P: a test goes through both drivers and each protocol. D: through both drivers,
since no protocol has a say, or one only. L: it is not here yet, and the words say why.
"""

FACTS = """
1 D a fresh chat is complete and asks nobody
2 D so is one with instructions only, which complete returns
3 D ask_later stages one message, asks nobody and returns the chat
4 P ask stages and completes, say is ask, pieces come out
6 D whether it is complete follows from the last message that is no instruction
7 P complete on an answered chat asks nobody
8 P generate asks once and runs no tool
9 D run_tools without open calls does nothing, after the check for a cancel
10 P only calls without a result run
11 P a step is one move and returns what came of it
13 P open calls are those of the last response, told by id
14 D the loop has no limit of its own
15 P complete goes on until the answer or until it is parked
16 P what a tool raises leaves its call open
17 P an error that a tool returns is a result
18 P a call of an unknown tool is answered with the names of those there are
19 P arguments that do not fit are answered, and the tool is not run
20 P arguments that are no JSON are an error with the reason of the end; none at all are empty
21 P a parameter tool_call gets the call and is in no schema
22 P what a tool returns becomes text and attachments
23 P nothing can be said while calls are open
24 L there is no compact of its own yet, only the one that the provider does by itself
25 P a call that requires approval waits, and the loop parks
26 P free calls run first, approved ones when it goes on
27 D it waits for approval only if every open call is undecided
28 D decisions take a call or an id and do nothing else
29 P a denial is one structured result, before the calls that run
31 D a resolver says yes, no or not yet, and is asked late and often
32 D a resolver beats a decision, a decision beats the checker
33 D pending_approvals are the undecided calls of the latest response
34 L calls that the provider runs cannot be approved yet
35 D decisions are kept by id until they are carried out, since servers use ids again
36 P a choice is a word or a tool that was added
37 P a choice that forces a call is forgotten once tools ran
38 P many or one call at once, said only if it is set
39 D concurrency is a mode, off, or what is configured
40 D options that are not named stay, unknown names are refused
41 D tools add up, None clears them and leaves options, a name is taken over
42 P results of calls that run at once are added as they end
44 D a cancel is seen before each tool and after it
45 P new instructions replace all others and stand last; each protocol has its place for them
46 D instructions may be kept, marked or removed
47 D messages are made of none, one or many, and copied
48 D what is no message is refused; a message is a value and has no way back to its chat
49 D a chat is a collection of its messages
50 P calls alone have empty words, and their order
51 P attachments come from paths, URLs, open files, bytes and other attachments
52 P types by name or by the first bytes; texts are words in a block
53 P a type that the protocol does not carry is refused before anything is sent
54 L large files are not uploaded yet, they go inline
55 P attachments of results stand inside them or behind their round
56 P only what is attached is read, and the docs say whom to trust
57 D callbacks add up in order, None is none
58 P before and after a reply is told, whole and streamed
59 P before and after a call and its result is told, at once or in turn; of a denial the message
60 P before_request gets the finished body, once, and may change all of it
62 D another model resets the protocol and keeps all else
63 P an unknown model is refused unless it is assumed to exist
64 D a protocol that is not spoken is refused at the request; who asks beats who configures
65 D OpenAI speaks responses but for some models
66 P another config keeps model, provider and protocol
67 D a missing key is named at once
68 P what passes by itself has the next model tried, nothing else
69 P each model is tried in order, after all retries of the one before
70 P afterwards the chat is at its first model again, also between steps
72 P fallbacks are told of after the switch and at their end
73 P what a broken stream has said is not taken back
74 D fallbacks are names or models, errors one or many, None clears both
75 P attempts that failed belong to the answer that came
76 P a cancel stops the next move once
77 P a cancel is seen at each step, and a checker is asked there
78 P an answer that comes after the cancel is counted and not added
80 P a hard cancel ends even a blocked read
81 D caching is unset, on with options or off
82 P automatic caching of Anthropic takes a ttl and no other option
83 P caching of OpenAI takes key, ttl and mode
84 P cache_until_here marks the last block of what may carry a mark
85 P a marked block is not marked again; four marks at most, automatic ones among them
87 P renders repeat, and grow at their end
88 D compaction has three options, others are refused
89 P compaction is asked for in each provider's way, what it lacks is dropped
90 D a block of compaction is kept and sent again as it came
91 L there is no compact of its own yet, only the one that the provider does by itself
92 P thinking is checked when it is set, an effort is passed on as it is
93 P thinking of Anthropic: budget, effort, display, none
94 D a temperature is dropped for models that take none
95 P reasoning is sent again with its signature or seal
96 P a schema comes from many things and has a name
98 P citations are told alike, each once, with pages from first to last
99 D provider tools are names, names with options or raw, and add up
100 P names of provider tools are the protocol's, others are refused at the request
101 P provider tools stand behind functions and options
102 D steps of provider tools are told and sent again, pauses are gone through
104 P headers are replaced, and those of the provider win
105 P an end user is told in each provider's way
106 P what is rendered is what is sent, and the chat stays as it is
107 P tokens are counted by the provider or not at all
108 P one row of the ledger for each request, with what it may have cost
109 P tokens are in one place each, and missing ones stay missing
110 P a cost without a price is none, the provider's own wins, long prompts have their price
111 P retries: how often, how long, and not once a stream has begun
112 P each status and each error in mid-stream is a class of its own
114 L batches are not built yet
115 L batches are not built yet
116 L batches are not built yet
117 L batches are not built yet
118 L batches are not built yet
119 L batches are not built yet
"""

REPORTS = """
98 P empty arguments in streams
213 D responses is the default of OpenAI, and refuses a temperature to models that reason
228 P pieces of calls are handed out as they come
236 P results of one round stay together
269 P calls without results never poison a chat
366 P an unknown model never blocks a call
499 P calls at once, with a mode
503 P a parked chat goes on elsewhere
521 P signatures are not lost, and thoughts are no words
567 D what a provider's tool is given is no argument of ours
568 P a stream says why it ended
607 P cancelling closes the connection
621 P failover to other models
706 P caching, automatic and explicit together
763 D compaction is seen in streams and sent again
805 P a form may be asked for by a tool that must be called
894 L batches are not built yet
"""

SEED = """
1 D the constructor
2 D no name is the configured model
3 D a model that is assumed to exist needs a provider
4 D settings return the chat
5 P ask, say, pieces
6 D iteration
7 D a repr that is short and names what waits
8 D the options of compaction
9 D approval_checker
10 D cancellation_checker
11 P usage_recorder
12 D reading caching
13 P reading citations
14 D reading compaction
15 D reading concurrency
16 P reading the config
17 D reading the end user
18 D reading fallbacks and their errors
19 P reading headers
20 P reading the limit of an answer
21 D messages can be read and set
22 D reading model and provider
23 P reading provider options
24 D reading provider tools
25 P reading a schema
26 P reading the temperature
27 D reading tools by name
28 P the attempts
29 L a completion is added from outside only with batches, which are not built yet
30 L a completion is added from outside only with batches, which are not built yet
31 D messages from messages and mappings
32 P after_fallback
33 P after_message
34 P after_tool_result
35 P before_fallback
36 P before_message
37 P before_request
38 P before_tool_call
39 P approve
40 P deny
41 P is_awaiting_approval
42 D resolvers are asked often
43 D pending_approvals
44 D ask_later
45 P nothing is said while calls are open
46 P attachments, and whom to trust
47 P cache_until_here
48 P cancel
49 P is_cancelled
50 P a blocked read ends by a hard cancel
51 L there is no compact of its own yet
52 L there is no compact of its own yet
53 L there is no compact of its own yet
54 L there is no compact of its own yet
55 P complete
56 D is_complete
57 P the cost of all attempts
58 P the tokens of all attempts
59 P count_tokens
60 P generate
61 P render
62 P run_tools
63 P step
64 P reading thinking
65 D reading tool options
66 P with_caching
67 L the protocol that has caches as objects, Gemini's, is not built yet
68 P caching that is off has no boundaries
69 P with_citations
70 D with_compaction
71 P options of compaction that are dropped
72 P compaction is each provider's own
73 P with_config
74 D with_end_user
75 D with_fallbacks
76 P with_headers
77 P with_instructions
78 P with_max_output_tokens
79 D with_model
80 P with_provider_options
81 P with_provider_tools
82 P steps, citations and counts of provider tools
83 P a provider tool that the protocol lacks
84 P with_schema
85 P parsed
86 P with_temperature
87 P with_thinking
88 P with_tool_options
89 D with_tools
90 P requires_approval
91 L batches are not built yet
92 P threads and fibers
93 P which errors are fallen back from
94 P spans of calls
"""
